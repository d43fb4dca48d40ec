// What the bindings of all rooms share.
// Every array is checked for its type, its number of axes and contiguity, and is never converted: a kernel would
// write into the converted copy, and what it wrote would be lost.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <string>
#include <tuple>

#include "arrays.hpp"

namespace attomaton {

namespace nb = nanobind;

template <class T, int Axes = 1>
using Argument = nb::ndarray<nb::numpy, T, nb::ndim<Axes>, nb::c_contig, nb::device::cpu>;
template <class T, int Axes = 1> using Read = Argument<const T, Axes>;
template <class T, int Axes = 1> using Write = Argument<T, Axes>;
template <class T, int Axes = 1> using Result = nb::ndarray<nb::numpy, T, nb::ndim<Axes>>;

// All entries of an array; a TypeError if they are not aligned, which its flags do not tell nanobind.
template <class T, int Axes> View<T> entries(const Argument<T, Axes> &array) {
    if (array.size() && reinterpret_cast<std::uintptr_t>(array.data()) % alignof(T))
        throw nb::type_error("an array is not aligned in memory; copy it");
    return {array.data(), Int(array.size())};
}
template <class T> View<T> view(const Argument<T> &array) { return entries<T, 1>(array); }
template <class T> Rows<T> rows(const Argument<T, 2> &array) { return {entries<T, 2>(array), Int(array.shape(1))}; }
template <class T> Rows<T> rows(const Argument<T, 3> &array) { // the last two axes as one
    return {entries<T, 3>(array), Int(array.shape(1) * array.shape(2))};
}

// A ValueError unless the condition holds.
inline void demand(bool holds, const char *message) {
    if (!holds) throw nb::value_error(message);
}

// An array of numpy that takes over the entries; it has the given lengths.
template <class T, class... Lengths> Result<T, sizeof...(Lengths)> give(Array<T> &&values, Lengths... lengths) {
    T *entries = values.release();
    nb::capsule owner(entries, [](void *memory) noexcept { delete[] static_cast<T *>(memory); });
    return Result<T, sizeof...(Lengths)>(entries, {std::size_t(lengths)...}, owner);
}

// The same with one axis.
template <class T> Result<T> give(Array<T> &&values) {
    const Int size = values.size;
    return give(std::move(values), size);
}

// The result of a kernel that runs without the GIL.
template <class Kernel> auto unlocked(Kernel kernel) {
    nb::gil_scoped_release released;
    return kernel();
}

template <class T> struct HoldsArrays : std::false_type {};
template <class... T> struct HoldsArrays<nb::ndarray<T...>> : std::true_type {};
template <class... T> struct HoldsArrays<std::tuple<T...>> : std::disjunction<HoldsArrays<T>...> {};

template <class Given> auto argument(const char *name) {
    if constexpr (HoldsArrays<Given>::value) return nb::arg(name).noconvert();
    else return nb::arg(name);
}

template <class Function, class Type, class Returned, class... Given, class... Names>
void define_typed(nb::module_ &module, const char *name, const char *doc, Function function,
                  Returned (Type::*)(Given...) const, Names... names) {
    static_assert(sizeof...(Given) == sizeof...(Names), "each argument needs a name");
    module.def(name, function, argument<Given>(names)..., doc);
}

// Define a function of the module; each of its arguments is named.
template <class Function, class... Names>
void define(nb::module_ &module, const char *name, const char *doc, Function function, Names... names) {
    define_typed(module, name, doc, function, &Function::operator(), names...);
}

} // namespace attomaton
