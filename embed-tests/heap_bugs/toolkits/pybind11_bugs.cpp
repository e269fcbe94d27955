/* Heap bugs of a module that pybind11 binds: those of C++, and those of capsules, arrays and references. */
#include "cpp_bugs.h"
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;

static py::capsule wrong_capsule() {
    return py::capsule(malloc(80), [](void *block) { delete static_cast<long *>(block); });
}
static void capsules_of_one_block() {
    auto *data = bugs::kept(new double[100]());
    py::capsule first(data, [](void *block) { delete[] static_cast<double *>(block); });
    py::capsule second(data, [](void *block) { delete[] static_cast<double *>(block); });
}
static void over_array() {
    py::array_t<double> array(1000);
    bugs::write(bugs::kept(array.mutable_data()), 8000);
}
static int read_array() {
    py::array_t<double> array(1000);
    return bugs::read(bugs::kept(array.mutable_data()), 8000);
}
static void lost_reference() { py::list(3).release(); }

PYBIND11_MODULE(pybind11_bugs, module) {
    py::class_<bugs::Node>(module, "Node").def(py::init<>()).def_readwrite("value", &bugs::Node::value);
    bugs::bind<py::dict>(module, py::return_value_policy::reference);
    module.def("wrong_capsule", wrong_capsule);
    module.def("capsules_of_one_block", capsules_of_one_block);
    module.def("over_array", over_array);
    module.def("read_array", read_array);
    module.def("lost_reference", lost_reference);
}
