// Views of arrays and arrays of results. With ATTOMATON_CHECKED every index is tested.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace attomaton {

using Int = std::int64_t;
using Int32 = std::int32_t;

// Entries that somebody else keeps.
template <class T> struct View {
    T *data = nullptr;
    Int size = 0;

    View() = default;
    View(T *data, Int size) : data(data), size(size) {}
    template <class U, class = std::enable_if_t<std::is_same_v<const U, T>>>
    View(const View<U> &source) : data(source.data), size(source.size) {}

    T &operator[](Int index) const {
#ifdef ATTOMATON_CHECKED
        if (index < 0 || index >= size) throw std::out_of_range("a kernel left its array");
#endif
        return data[index];
    }
    View slice(Int begin, Int end) const {
#ifdef ATTOMATON_CHECKED
        if (begin < 0 || end < begin || end > size) throw std::out_of_range("a kernel left its array");
#endif
        return {data + begin, end - begin};
    }
    T *begin() const { return data; }
    T *end() const { return data + size; }
};

template <class T> using In = View<const T>; // an argument that is read
template <class T> using Out = View<T>;      // an argument that is written

// Entries kept here, zero unless another value is given.
template <class T> class Array : public View<T> {
    std::unique_ptr<T[]> memory;

  public:
    Array() = default;
    explicit Array(Int size) : View<T>(nullptr, size), memory(new T[size]()) { this->data = memory.get(); }
    Array(Int size, T value) : Array(size) { std::fill(this->begin(), this->end(), value); }
    explicit Array(In<T> values) : Array(values.size) { std::copy(values.begin(), values.end(), this->data); }
    Array(Array &&) = default;
    Array &operator=(Array &&) = default;

    T *release() { return memory.release(); }
};

// The rows of a two-dimensional array, one after the other.
template <class T> struct Rows {
    View<T> entries;
    Int width = 0;

    View<T> operator[](Int row) const { return entries.slice(row * width, (row + 1) * width); }
    Int count() const { return width ? entries.size / width : 0; }
};

} // namespace attomaton
