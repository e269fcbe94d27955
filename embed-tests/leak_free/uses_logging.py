import logging, logging.handlers, io
logging.basicConfig(stream=io.StringIO())
logging.getLogger('x').warning('hi %s', 1)
logging.getLogger('a.b').error('x', exc_info=ValueError('x'))
