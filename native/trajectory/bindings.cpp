// The kernels of trajectory, as functions of Python.
#include "base/bindings.hpp"

namespace attomaton {

void bind_trajectory(nb::module_ &) {}

} // namespace attomaton
