// A vendor's shared library, opened by name at run time.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

namespace ashlar::detail {

/// The library that was asked for, or the first of `names` that is there; null where none is.
inline void* open_library(const std::string& asked, std::initializer_list<const char*> names) noexcept {
  if (!asked.empty()) return dlopen(asked.c_str(), RTLD_NOW | RTLD_LOCAL);
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

/// False where the library has no such function.
template <class Entry>
bool load(void* library, Entry& entry, const char* name) noexcept {
  entry = reinterpret_cast<Entry>(dlsym(library, name));
  return entry != nullptr;
}

}  // namespace ashlar::detail
