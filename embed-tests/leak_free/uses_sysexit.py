import sys
x = [i for i in range(100)]
sys.exit(0)
