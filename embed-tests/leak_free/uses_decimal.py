from decimal import *
getcontext().prec = 50
print(Decimal(2).sqrt() + Decimal('1e-7'))
with localcontext() as c:
    c.prec = 5
    print(Decimal(1) / 3)
