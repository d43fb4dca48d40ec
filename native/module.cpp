// The extension: the kernels of all rooms.
#include <nanobind/nanobind.h>

namespace attomaton {

void bind_graphs(nanobind::module_ &);
void bind_soft(nanobind::module_ &);
void bind_hard(nanobind::module_ &);
void bind_norms(nanobind::module_ &);
void bind_trajectory(nanobind::module_ &);
void bind_automaton(nanobind::module_ &);
void bind_experiments(nanobind::module_ &);

} // namespace attomaton

NB_MODULE(native, module) {
    module.doc() = "Kernels: loops over arrays, compiled when the package is built.";
    attomaton::bind_graphs(module);
    attomaton::bind_soft(module);
    attomaton::bind_hard(module);
    attomaton::bind_norms(module);
    attomaton::bind_trajectory(module);
    attomaton::bind_automaton(module);
    attomaton::bind_experiments(module);
}
