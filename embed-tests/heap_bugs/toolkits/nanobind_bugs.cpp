/* Heap bugs of a module that nanobind binds: those of C++, and those of capsules, arrays and references. */
#include "cpp_bugs.h"
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

using Array = nb::ndarray<nb::numpy, double, nb::ndim<1>>;

static nb::capsule wrong_capsule() {
    return nb::capsule(malloc(80), [](void *block) noexcept { delete static_cast<long *>(block); });
}
static void capsules_of_one_block() {
    auto *data = bugs::kept(new double[100]());
    nb::capsule first(data, [](void *block) noexcept { delete[] static_cast<double *>(block); });
    nb::capsule second(data, [](void *block) noexcept { delete[] static_cast<double *>(block); });
}
static void over_array(Array array) { bugs::write(bugs::kept(array.data()), static_cast<long>(array.nbytes())); }
static int read_array(Array array) { return bugs::read(bugs::kept(array.data()), static_cast<long>(array.nbytes())); }
static void lost_reference() { nb::list().release(); }

NB_MODULE(nanobind_bugs, module) {
    nb::class_<bugs::Node>(module, "Node").def(nb::init<>()).def_rw("value", &bugs::Node::value);
    bugs::bind<nb::dict>(module, nb::rv_policy::reference);
    module.def("wrong_capsule", wrong_capsule);
    module.def("capsules_of_one_block", capsules_of_one_block);
    module.def("over_array", over_array);
    module.def("read_array", read_array);
    module.def("lost_reference", lost_reference);
}
