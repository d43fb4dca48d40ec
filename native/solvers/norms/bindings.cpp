// The kernels of solvers/norms, as functions of Python.
#include "base/bindings.hpp"

namespace attomaton {

void bind_norms(nb::module_ &) {}

} // namespace attomaton
