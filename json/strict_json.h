// JSON from files that nobody vouches for. nlohmann's lexer and grammar; over them a limit on depth, every key once,
// and numbers that are asked whether they fit. Time and memory are proportional to the text.
//
// Header-only, and it sees nothing of the library: both halves read JSON with it, and each makes its own error of what
// it refuses.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ashlar::strict_json {

using nlohmann::json;

/// Arrays and objects inside of each other. Files of this library use 6.
inline constexpr size_t kMaxDepth = 32;
inline constexpr size_t kMaxShown = 160;  // bytes of the file in a message

/// Why a text was refused, in the words that follow "got".
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// `text` as it can stand in a message: whole where it is short, and always UTF-8.
inline std::string shown(std::string_view text) {
  std::string cut(text.substr(0, kMaxShown));
  while (cut.size() < text.size() && !cut.empty() && (text[cut.size()] & 0xC0) == 0x80) cut.pop_back();
  return cut + (cut.size() < text.size() ? "…" : "");
}

/// The same of a value; of a list or an object only that.
inline std::string described(const json& value) {
  if (value.is_structured()) return std::string("an ") + value.type_name();  // array or object
  return shown(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

/// Takes the events of a text in order, as nlohmann's SAX interface calls them. To refuse, throw Refusal.
class Events : public nlohmann::json_sax<json> {
 public:
  bool binary(binary_t& /*value*/) final { return false; }  // not in texts
  bool parse_error(size_t position, const std::string& /*token*/, const json::exception& error) final {
    std::string_view what = error.what();
    if (const size_t end = what.find("] "); what.starts_with("[json.exception") && end != std::string_view::npos) {
      what.remove_prefix(end + 2);
    }
    throw Refusal("no JSON at byte " + std::to_string(position) + " (" + shown(what) + ")");
  }
};

/// Throws Refusal, its own or one of `events`.
inline void read(std::string_view text, Events& events) {
  // nlohmann's lexer takes a zero byte for the end of the text, whatever follows.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw Refusal("no JSON at byte " + std::to_string(zero + 1) + " (a zero byte)");
  }
  if (!json::sax_parse(text.data(), text.data() + text.size(), &events)) throw Refusal("no JSON");
}

namespace detail {

/// Builds the value of a text.
class Builder final : public Events {
 public:
  bool null() final { return put(nullptr); }
  bool boolean(bool value) final { return put(value); }
  bool number_integer(number_integer_t value) final { return put(value); }
  bool number_unsigned(number_unsigned_t value) final { return put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) final { return put(value); }
  bool string(string_t& value) final { return put(std::move(value)); }
  bool start_object(size_t /*size*/) final { return open(json::object()); }
  bool start_array(size_t /*size*/) final { return open(json::array()); }
  bool end_object() final { return close(); }
  bool end_array() final { return close(); }
  bool key(string_t& name) final {
    const auto [place, is_new] = open_.back()->get_ref<json::object_t&>().emplace(std::move(name), nullptr);
    if (!is_new) throw Refusal("the key \"" + shown(place->first) + "\" twice in one object");
    member_ = &place->second;
    return true;
  }
  json take() { return std::move(value_); }

 private:
  template <class Value>
  json* place(Value&& value) {
    if (open_.empty()) return &(value_ = std::forward<Value>(value));
    if (open_.back()->is_object()) return &(*member_ = std::forward<Value>(value));
    return &open_.back()->emplace_back(std::forward<Value>(value));
  }
  template <class Value>
  bool put(Value&& value) {
    place(std::forward<Value>(value));
    return true;
  }
  bool open(json&& empty) {
    if (open_.size() == kMaxDepth) {
      throw Refusal("arrays and objects inside of each other more than " + std::to_string(kMaxDepth) + " deep");
    }
    open_.push_back(place(std::move(empty)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  json value_;
  std::vector<json*> open_;  // an array or object only grows while nothing in it is open: these stay valid
  json* member_ = nullptr;   // where the value of the last key belongs
};

template <class T>
struct Reader;

}  // namespace detail

/// The value of `text`. Throws Refusal when it isn't JSON, deeper than kMaxDepth, has a key twice in one object or a
/// number that no double holds.
inline json parse(std::string_view text) {
  detail::Builder builder;
  read(text, builder);
  return builder.take();
}

/// `value` as a T: bool, std::string, whole numbers, double, and std::vector and std::map<std::string, …> of these.
/// Throws Refusal, beginning with `where`, when it is of another kind or, a number, out of T's range.
template <class T>
T get(const json& value, const std::string& where) {
  return detail::Reader<T>::read(value, where);
}

[[noreturn]] inline void refuse(const json& value, const std::string& where, const std::string& needed) {
  throw Refusal(where + " = " + described(value) + " where " + needed + " belongs");
}

/// `value`, which is an object. Throws Refusal.
inline const json& object(const json& value, const std::string& where) {
  if (!value.is_object()) refuse(value, where, "an object");
  return value;
}

/// `value`, which is a list. Throws Refusal.
inline const json& list(const json& value, const std::string& where) {
  if (!value.is_array()) refuse(value, where, "a list");
  return value;
}

/// The member `name` of `value` as it is. Throws Refusal when there is none.
inline const json& member(const json& value, const char* name, const std::string& where) {
  const auto found = object(value, where).find(name);
  if (found == value.end()) throw Refusal(where + " without \"" + name + "\"");
  return *found;
}

template <class T>
T get(const json& value, const char* name, const std::string& where) {
  return get<T>(member(value, name, where), where + ": " + name);
}

/// A whole number of [least, most]. Throws Refusal.
inline int64_t whole_number(const json& value, int64_t least, int64_t most, const std::string& where) {
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()}
                                               : value.is_number_integer();
  const int64_t number = fits ? value.get<int64_t>() : 0;
  if (!fits || number < least || number > most) {
    refuse(value, where, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

namespace detail {

template <>
struct Reader<std::string> {
  static std::string read(const json& value, const std::string& where) {
    if (!value.is_string()) refuse(value, where, "text");
    return value.get<std::string>();
  }
};
template <>
struct Reader<bool> {
  static bool read(const json& value, const std::string& where) {
    if (!value.is_boolean()) refuse(value, where, "true or false");
    return value.get<bool>();
  }
};
template <>
struct Reader<double> {
  static double read(const json& value, const std::string& where) {
    if (!value.is_number()) refuse(value, where, "a number");
    return value.get<double>();
  }
};
template <>
struct Reader<uint64_t> {
  static uint64_t read(const json& value, const std::string& where) {
    if (!value.is_number_unsigned()) refuse(value, where, "a whole number from 0 to 18446744073709551615");
    return value.get<uint64_t>();
  }
};
template <class T>
requires std::is_integral_v<T>
struct Reader<T> {
  static T read(const json& value, const std::string& where) {
    using Limits = std::numeric_limits<T>;
    return static_cast<T>(whole_number(value, int64_t{Limits::min()}, int64_t{Limits::max()}, where));
  }
};
template <class T>
struct Reader<std::vector<T>> {
  static std::vector<T> read(const json& value, const std::string& where) {
    std::vector<T> all;
    all.reserve(list(value, where).size());
    for (const json& item : value) all.push_back(get<T>(item, where));
    return all;
  }
};
template <class T>
struct Reader<std::map<std::string, T>> {
  static std::map<std::string, T> read(const json& value, const std::string& where) {
    std::map<std::string, T> all;
    for (const auto& [name, item] : object(value, where).items()) all.emplace(name, get<T>(item, where + ": " + name));
    return all;
  }
};

}  // namespace detail
}  // namespace ashlar::strict_json
