from PIL import Image, ImageFilter

picture = Image.linear_gradient("L").resize((7000, 7000))
picture = Image.merge("RGB", (picture, picture.rotate(90), picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)))
small = picture.filter(ImageFilter.GaussianBlur(2)).resize((700, 700))
assert small.size == (700, 700)
