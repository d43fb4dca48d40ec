// The kernels of solvers/soft, as functions of Python.
#include "base/bindings.hpp"

namespace attomaton {

void bind_soft(nb::module_ &) {}

} // namespace attomaton
