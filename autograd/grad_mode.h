// Switching recording off for a while.
#pragma once

namespace ashlar {

/// True while this thread records operations (the default).
bool grad_enabled();

/// While one lives, its thread records nothing: results of ashlar::ad functions require no gradient.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};

/// While one lives, its thread records, inside of a NoGrad, too.
class EnableGrad {
 public:
  EnableGrad();
  ~EnableGrad();
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool previous_;
};

}  // namespace ashlar
