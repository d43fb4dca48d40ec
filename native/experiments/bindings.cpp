// The kernels of experiments, as functions of Python.
#include "base/bindings.hpp"

namespace attomaton {

void bind_experiments(nb::module_ &) {}

} // namespace attomaton
