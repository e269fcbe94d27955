"""A service with a leak: /leak keeps what it makes, /work makes and drops as much, /health answers.

A MemoryError of a route is its own: the framework answers 500, or this 503 where the handler gets it.
"""

from fastapi import FastAPI
from fastapi.responses import JSONResponse

app = FastAPI()
kept = []


@app.exception_handler(MemoryError)
async def out_of_memory(request, error):
    return JSONResponse({"detail": "out of memory"}, status_code=503)


def rows(count):
    return [{"number": number, "text": f"row {number}", "parts": [number, str(number)]} for number in range(count)]


@app.get("/leak")
async def leak(count: int = 400):
    kept.append(rows(count))
    return {"kept": len(kept)}


@app.get("/leak-in-thread")
def leak_in_thread(count: int = 400):
    kept.append(rows(count))
    return {"kept": len(kept)}


@app.get("/work")
async def work(count: int = 400):
    return {"sum": sum(row["number"] for row in rows(count))}


@app.get("/health")
async def health():
    return {"status": "ok"}
