// The kernels of automaton, as functions of Python.
#include "base/bindings.hpp"

namespace attomaton {

void bind_automaton(nb::module_ &) {}

} // namespace attomaton
