/* Stock Python: CPython's own main, to be linked with a libpython as a host is. */
int Py_BytesMain(int count, char **arguments);

int main(int count, char **arguments) { return Py_BytesMain(count, arguments); }
