# Run by the build (cmake -P): writes the C++ header OUTPUT with kEmitters, a hash of the files FILES.
set(hashes "")
foreach(file IN LISTS FILES)
  file(SHA256 ${file} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 hash "${hashes}")
file(WRITE ${OUTPUT} "inline constexpr const char* kEmitters = \"${hash}\";\n")
