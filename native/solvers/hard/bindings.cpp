// The kernels of solvers/hard, as functions of Python.
#include "base/bindings.hpp"

namespace attomaton {

void bind_hard(nb::module_ &) {}

} // namespace attomaton
