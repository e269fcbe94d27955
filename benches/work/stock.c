/* Stock Python, to be linked as the host under test is. */
int Py_BytesMain(int, char **);
int main(int argc, char **argv) { return Py_BytesMain(argc, argv); }
