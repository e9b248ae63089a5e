#include "dsl/build/code_cache.h"

#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "dsl/build/digest.h"
#include "dsl/build/files.h"

namespace ashlar::dsl {

using std::filesystem::path;

bool CodeCache::fetch(const std::string& kind, const std::string& key, const path& folder) const {
  if (folder_.empty()) return false;
  const path entry = folder_ / kind / key;
  std::error_code error;
  std::filesystem::last_write_time(entry, std::filesystem::file_time_type::clock::now(), error);
  if (error) return false;
  // Whatever fails here is a miss: somebody may be emptying the cache.
  for (std::filesystem::directory_iterator file(entry, error), end; !error && file != end; file.increment(error)) {
    std::filesystem::copy_file(file->path(), folder / file->path().filename(),
                               std::filesystem::copy_options::overwrite_existing, error);
  }
  return !error;
}

void CodeCache::keep(const std::string& kind, const std::string& key, const std::vector<path>& files) const {
  if (folder_.empty()) return;
  // Into a folder of its own first, which is then renamed as a whole: an entry is there with all its files or not at
  // all, and of two builds that make the same one either is right.
  const path entry = folder_ / kind / key;
  std::filesystem::create_directories(entry.parent_path());
  std::string part = entry.string() + ".XXXXXX";
  if (mkdtemp(part.data()) == nullptr) throw std::runtime_error("can't write to " + entry.parent_path().string());
  std::filesystem::permissions(part, std::filesystem::perms(0755));
  for (const path& file : files) std::filesystem::copy_file(file, path(part) / file.filename());
  std::error_code error;
  std::filesystem::rename(part, entry, error);
  if (error) std::filesystem::remove_all(part);
}

std::string identity_of_program() {
  Digest digest;
  digest.add(read_file("/proc/self/exe"));
  return digest.text();
}

std::string identity_of_halide() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* result) {
        if (std::strstr(library->dlpi_name, "libHalide") == nullptr) return 0;
        for (int i = 0; i < library->dlpi_phnum; i++) {
          const auto& segment = library->dlpi_phdr[i];
          if (segment.p_type != PT_NOTE) continue;
          const char* note = reinterpret_cast<const char*>(library->dlpi_addr + segment.p_vaddr);
          const char* const end = note + segment.p_memsz;
          while (note + sizeof(ElfW(Nhdr)) <= end) {
            const auto* header = reinterpret_cast<const ElfW(Nhdr)*>(note);
            const char* name = note + sizeof *header;
            const char* content = name + (header->n_namesz + 3) / 4 * 4;
            if (header->n_type == NT_GNU_BUILD_ID &&
                std::string_view(name, header->n_namesz) == std::string_view("GNU", 4))
              *static_cast<std::string*>(result) = std::string(content, header->n_descsz);
            note = content + (header->n_descsz + 3) / 4 * 4;
          }
        }
        return 1;
      },
      &id);
  if (id.empty()) throw std::runtime_error("this Halide has no build id, by which compiled code could be kept");
  Digest digest;
  digest.add(id);
  return digest.text();
}

}  // namespace ashlar::dsl
