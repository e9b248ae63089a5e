#include "nn/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "nn/data/file.h"
#include "nn/data/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "read_csv";

/// The fields of a text one after the other.
class Fields {
 public:
  Fields(std::string_view text, char separator, const std::string& name)
      : rest_(text), separator_(separator), name_(name) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  }

  bool at_end() const { return rest_.empty() && !is_field_owed_; }
  bool at_line_start() const { return is_line_start_; }
  int64_t line() const { return line_; }
  const std::string& name() const { return name_; }

  /// The next field; valid until the next call.
  std::string_view next() {
    line_ += ended_lines_;
    ended_lines_ = 0;
    const std::string_view field = !rest_.empty() && rest_.front() == '"' ? quoted() : plain();
    is_field_owed_ = false;
    is_line_start_ = true;
    if (rest_.empty()) return field;
    if (rest_.front() == separator_) {
      rest_.remove_prefix(1);
      is_line_start_ = false;
      is_field_owed_ = true;  // an empty one, should the text end here
      return field;
    }
    skip_line_end();
    return field;
  }

  [[noreturn]] void refuse(const std::string& came, const std::string& needed, int64_t column = -1) const {
    const std::string where = column < 0 ? "" : ", column " + std::to_string(column + 1);
    throw DataError(kName, name_ + ", line " + std::to_string(line_) + where + ": " + came, needed,
                    "Mend the line, or set separator, has_header, missing or categorical in CsvOptions");
  }

 private:
  bool at_line_end() const { return rest_.front() == '\n' || rest_.starts_with("\r\n"); }
  void skip_line_end() {
    if (!at_line_end()) refuse("text after a closing quote", "a separator or the end of the line");
    rest_.remove_prefix(rest_.front() == '\n' ? 1 : 2);
    ended_lines_++;
  }
  std::string_view plain() {
    size_t end = 0;
    while (end < rest_.size() && rest_[end] != separator_ && rest_[end] != '\n') end++;
    std::string_view field = rest_.substr(0, end);
    if (end < rest_.size() && rest_[end] == '\n' && field.ends_with('\r')) field.remove_suffix(1);
    rest_.remove_prefix(field.size());
    return field;
  }
  std::string_view quoted() {
    unquoted_.clear();
    for (size_t i = 1; i < rest_.size(); i++) {
      ended_lines_ += rest_[i] == '\n';
      if (rest_[i] != '"') {
        unquoted_ += rest_[i];
      } else if (i + 1 < rest_.size() && rest_[i + 1] == '"') {
        unquoted_ += rest_[i++];
      } else {
        rest_.remove_prefix(i + 1);
        return unquoted_;
      }
    }
    refuse("a quote that doesn't close", "its end");
  }

  std::string_view rest_;
  const char separator_;
  const std::string& name_;
  std::string unquoted_;
  int64_t line_ = 1, ended_lines_ = 0;
  bool is_line_start_ = true, is_field_owed_ = false;
};

std::string_view trimmed(std::string_view field) {
  constexpr std::string_view kSpaces = " \t";
  const size_t first = field.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return field.substr(first, field.find_last_not_of(kSpaces) - first + 1);
}

std::string quote(std::string_view field) {
  constexpr size_t kShown = 40;
  std::string text("'");
  text += field.substr(0, kShown);
  text += field.size() > kShown ? "…'" : "'";
  return text;
}

double number_in(std::string_view field, const CsvOptions& options, const Fields& fields, int64_t column) {
  std::string_view text = trimmed(field);
  if (text.empty() || std::ranges::find(options.missing_words, text) != options.missing_words.end()) {
    if (options.missing) return *options.missing;
    fields.refuse(text.empty() ? "an empty field" : "the missing value " + quote(text),
                  "a number, or an option `missing` that says what stands for it", column);
  }
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) {
    fields.refuse(quote(field), "a number", column);
  }
  const bool is_lost = options.dtype == DType::f32 && std::isfinite(value) && std::isinf(static_cast<float>(value));
  if (error != std::errc() || is_lost) {
    fields.refuse(quote(field), "a number that " + std::string(name_of(options.dtype)) + " can hold", column);
  }
  return value;
}

/// The words of a column, each with the number that it got when it first came.
using Words = std::map<std::string, int64_t, std::less<>>;

void check(const CsvOptions& options) {
  const char separator = options.separator;
  if (separator == '"' || separator == '\n' || separator == '\r') {
    throw ValueError(kName, "a quote or line end as the separator", "another character", "Pass ',', ';' or '\\t'");
  }
  if (options.dtype != DType::f32 && options.dtype != DType::f64) {
    throw ValueError(kName, "dtype " + std::string(name_of(options.dtype)), "f32 or f64",
                     "Convert the values with to() afterwards");
  }
}

/// Where the categorical columns are: for each column, its place in options.categorical or -1.
std::vector<int64_t> categorical_columns(const CsvOptions& options, const std::vector<std::string>& columns) {
  std::vector<int64_t> places(columns.size(), -1);
  for (size_t i = 0; i < options.categorical.size(); i++) {
    const auto found = std::ranges::find(columns, options.categorical[i]);
    if (found == columns.end()) {
      throw ValueError(kName, "a categorical column " + quote(options.categorical[i]), "a column of the file",
                       "Take its name from the header, or without one its number from 0");
    }
    places[static_cast<size_t>(found - columns.begin())] = static_cast<int64_t>(i);
  }
  return places;
}

template <class T>
CsvTable parse_as(std::string_view text, const std::string& name, const CsvOptions& options) {
  Fields fields(text, options.separator, name);
  CsvTable table;
  if (options.has_header && !fields.at_end()) {
    do {
      table.columns.emplace_back(trimmed(fields.next()));
    } while (!fields.at_line_start());
  }
  std::vector<T> values;
  std::vector<int64_t> places;
  std::vector<Words> words(options.categorical.size());
  while (!fields.at_end()) {
    // The first row says how many columns there are where no header did.
    if (table.columns.empty()) {
      Fields ahead = fields;
      do {
        ahead.next();
        table.columns.push_back(std::to_string(table.columns.size()));
      } while (!ahead.at_line_start());
    }
    if (places.empty()) places = categorical_columns(options, table.columns);
    const auto columns = static_cast<int64_t>(table.columns.size());
    int64_t column = 0;
    bool is_blank = false;
    do {
      const std::string_view field = fields.next();
      is_blank = column == 0 && columns > 1 && field.empty() && fields.at_line_start();
      if (is_blank) break;  // a line without anything
      if (column == columns) fields.refuse("more than " + std::to_string(columns) + " fields", "as many as before");
      const int64_t place = places[static_cast<size_t>(column)];
      if (place < 0) {
        values.push_back(static_cast<T>(number_in(field, options, fields, column)));
      } else {
        Words& known = words[static_cast<size_t>(place)];
        auto found = known.find(trimmed(field));
        constexpr int64_t kMostWords = int64_t{1} << std::numeric_limits<T>::digits;  // as exact numbers of the dtype
        if (found == known.end() && static_cast<int64_t>(known.size()) == kMostWords) {
          fields.refuse("word number " + std::to_string(kMostWords), "no more, or dtype f64", column);
        }
        if (found == known.end()) found = known.emplace(trimmed(field), static_cast<int64_t>(known.size())).first;
        values.push_back(static_cast<T>(found->second));
      }
      column++;
    } while (!fields.at_line_start());
    if (!is_blank && column != columns) {
      fields.refuse(std::to_string(column) + " fields", std::to_string(columns) + ", as before");
    }
  }
  if (places.empty()) places = categorical_columns(options, table.columns);

  // Words are numbered anew, in order.
  const size_t columns = table.columns.size();
  for (size_t c = 0; c < columns; c++) {
    if (places[c] < 0) continue;
    const Words& known = words[static_cast<size_t>(places[c])];
    std::vector<T> ordered(known.size());
    T next = 0;
    for (const auto& [word, number] : known) ordered[static_cast<size_t>(number)] = next++;
    for (size_t i = c; i < values.size(); i += columns) values[i] = ordered[static_cast<size_t>(values[i])];
  }
  for (const Words& known : words) {
    std::vector<std::string>& list = table.categories.emplace_back();
    for (const auto& entry : known) list.push_back(entry.first);
  }
  const auto rows = static_cast<int64_t>(columns == 0 ? 0 : values.size() / columns);
  table.values = Tensor::from(values, {rows, static_cast<int64_t>(columns)});
  return table;
}

}  // namespace

Tensor CsvTable::column(const std::string& name) const {
  const auto count = std::ranges::count(columns, name);
  if (count != 1) {
    throw ValueError("CsvTable::column", std::to_string(count) + " columns " + quote(name), "one of that name",
                     "Look at `columns`, and take slices of `values` where names repeat");
  }
  return values.select(1, std::ranges::find(columns, name) - columns.begin());
}

CsvTable parse_csv(std::span<const uint8_t> bytes, const std::string& name, const CsvOptions& options) {
  check(options);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return with_host_memory(kName, name, [&] {
    return options.dtype == DType::f32 ? parse_as<float>(text, name, options) : parse_as<double>(text, name, options);
  });
}

CsvTable read_csv(const std::filesystem::path& file, const CsvOptions& options) {
  return parse_csv(read_file(kName, file), file.string(), options);
}

}  // namespace ashlar::nn
