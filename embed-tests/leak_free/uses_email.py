import email.message, email.parser, csv, configparser, io, argparse
m = email.message.EmailMessage()
m['Subject'] = 'x'
m.set_content('hi')
print(len(str(m)))
print(list(csv.reader(io.StringIO('a,b\n1,2'))))
c = configparser.ConfigParser()
c.read_string('[a]\nb=1')
p = argparse.ArgumentParser()
p.add_argument('--x')
print(p.parse_args(['--x', '1']))
