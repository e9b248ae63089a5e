#include "schedules/elementwise.h"

namespace ashlar::dsl {

class Bad : public Kernel<Bad> {
 public:
  In<long double, 1> x{"x"};
  void algorithm() {}
  void schedule(auto) {}
};

}  // namespace ashlar::dsl
