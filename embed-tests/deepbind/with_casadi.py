"""CasADi's solvers, each a library of its own: IPOPT, an integrator of SUNDIALS, a QP solver, and an error."""
import casadi

x, y = casadi.SX.sym("x"), casadi.SX.sym("y")
quiet = {"ipopt.print_level": 0, "print_time": 0, "ipopt.sb": "yes"}
problem = {"x": casadi.vertcat(x, y), "f": (1 - x) ** 2 + 100 * (y - x**2) ** 2, "g": x + y}
solver = casadi.nlpsol("solver", "ipopt", problem, quiet)
for start in range(10):
    found = solver(x0=[start, -start], lbg=-10, ubg=1)
    print(start, *(f"{float(value):.4f}" for value in found["x"].elements()))
for name in ("cvodes", "rk"):
    integrator = casadi.integrator("integrator", name, {"x": x, "ode": -x}, 0, 1)
    print(name, f"{float(integrator(x0=1)['xf']):.4f}")
least = casadi.qpsol("least", "qrqp", {"x": casadi.vertcat(x, y), "f": x**2 + y**2, "g": x + y}, {"print_iter": False,
                     "print_header": False})
print(*(f"{float(value):.4f}" for value in least(lbg=1, ubg=1)["x"].elements()))
try:
    solver(x0=[1, 2, 3])
except RuntimeError as error:
    print(type(error).__name__)
