/* Stock Python by a libpython: CPython's own main. */
int Py_BytesMain(int count, char **arguments);

int main(int count, char **arguments) { return Py_BytesMain(count, arguments); }
