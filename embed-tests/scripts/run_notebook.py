"""Runs cells in a kernel of its own, through nbclient, and prints the outputs of each as one line of JSON.

    run_notebook.py '{"command": [...], "cells": [...]}'

The command starts the kernel; the connection file is appended.
"""
import json
import os
import pathlib
import sys

import nbformat
from nbclient import NotebookClient

request = json.loads(sys.argv[1])
kernels = pathlib.Path("jupyter/kernels/hosted").absolute()
kernels.mkdir(parents=True)
argv = [*request["command"], "-f", "{connection_file}"]
(kernels / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "hosted", "language": "python"}))
os.environ["JUPYTER_PATH"] = str(kernels.parent.parent)
os.environ["JUPYTER_RUNTIME_DIR"] = str(pathlib.Path("runtime").absolute())

cells = [nbformat.v4.new_code_cell(cell) for cell in request["cells"]]
notebook = nbformat.v4.new_notebook(cells=cells)
NotebookClient(notebook, timeout=120, kernel_name="hosted", allow_errors=True).execute()
print(json.dumps([cell["outputs"] for cell in notebook["cells"]]))
