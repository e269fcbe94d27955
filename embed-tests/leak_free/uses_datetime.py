import datetime, zoneinfo
print(datetime.datetime.now(datetime.timezone.utc).year > 0, datetime.date.fromisoformat('2020-01-01').strftime('%A'), datetime.datetime.strptime('2020', '%Y'))
try:
    zoneinfo.ZoneInfo('Europe/Berlin')
except Exception as e:
    print(e)
