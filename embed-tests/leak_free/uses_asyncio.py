import asyncio

async def f(n):
    await asyncio.sleep(0.001)
    return n

async def main():
    print(await asyncio.gather(*[f(i) for i in range(20)]))
    t = asyncio.create_task(f(1))
    await t
    s = await asyncio.start_server(lambda r, w: w.close(), '127.0.0.1', 0)
    p = s.sockets[0].getsockname()[1]
    r, w = await asyncio.open_connection('127.0.0.1', p)
    print(await r.read())
    w.close()
    s.close()
asyncio.run(main())
