"""A service whose requests have a budget of 24 MiB by the middleware: Flask as `flask_app`, FastAPI as `fastapi_app`, Django as `django_app`, plain ASGI
as `asgi_app`.

The routes know nothing of budgets: one needs little, one leaks, one asks for 200 MB, one builds many strings. With an argument it serves
Flask on that port, a thread a request.
"""

import sys

import pyhost

BUDGET = "24M"
kept = []


def small():
    return str(len([str(number) for number in range(2000)]))


def leak():
    kept.append(["leak %d" % number for number in range(300)])
    return str(len(kept))


def huge():
    return str(len(bytearray(200_000_000)))


def strings():
    return str(len(["%d is a string" % number for number in range(3_000_000)]))


ROUTES = {"small": small, "leak": leak, "huge": huge, "strings": strings}


def flask():
    from flask import Flask

    app = Flask("app")
    for name, route in ROUTES.items():
        app.add_url_rule(f"/{name}", name, route)
    app.wsgi_app = pyhost.wsgi.Budget(app.wsgi_app, BUDGET)
    return app


def django():
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path

    def view(route):
        return lambda request: HttpResponse(route())

    urls = [path(name, view(route)) for name, route in ROUTES.items()]
    settings.configure(SECRET_KEY="none", ALLOWED_HOSTS=["*"], ROOT_URLCONF=tuple(urls), LOGGING_CONFIG=None)
    return pyhost.wsgi.Budget(get_wsgi_application(), BUDGET)


def fastapi():
    from fastapi import FastAPI

    app = FastAPI()
    for name, route in ROUTES.items():
        app.get(f"/{name}")(route)
        app.get(f"/{name}/async")(_async(route))
    app.add_middleware(pyhost.asgi.Budget, size=BUDGET)
    return app


def _async(route):
    async def call():
        return route()

    return call


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    body = ROUTES[scope["path"].split("/")[1]]().encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


asgi_app = pyhost.asgi.Budget(asgi, BUDGET)


def __getattr__(name):
    apps = {"flask_app": flask, "fastapi_app": fastapi, "django_app": django}
    if name not in apps:
        raise AttributeError(name)
    app = globals()[name] = apps[name]()
    return app


if __name__ == "__main__":
    from werkzeug.serving import make_server

    make_server("127.0.0.1", int(sys.argv[1]), flask(), threaded=True).serve_forever()
