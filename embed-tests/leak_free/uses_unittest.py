import unittest, doctest

class T(unittest.TestCase):

    def test_a(self):
        self.assertEqual(1, 1)

    def test_b(self):
        with self.assertRaises(ValueError):
            raise ValueError
unittest.main(exit=False, verbosity=0)
