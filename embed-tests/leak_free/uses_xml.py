import xml.etree.ElementTree as E, xml.dom.minidom as m, xml.sax
r = E.fromstring('<a><b x="1">t</b></a>')
print(E.tostring(r), r.find('b').attrib, m.parseString('<a/>').toxml())
xml.sax.parseString('<a><b/></a>', xml.sax.ContentHandler())
