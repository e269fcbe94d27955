import subprocess, sys
print(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True, text=True).stdout)
