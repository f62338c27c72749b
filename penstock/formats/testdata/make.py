# Writes the .npy and .npz files of this folder with NumPy. The tests know the formulas.
import numpy as np

a = np.arange(24).reshape(2, 3, 4)
np.save('int32.npy', a.astype('<i4'))
np.save('big_endian.npy', a.astype('>f8'))
np.save('column_major.npy', np.asfortranarray(a.astype('<u2')))
np.save('complex.npy', (a + 1j * a[::-1]).astype('>c8'))
np.save('bool.npy', a % 3 == 0)
np.save('float16.npy', (a / 8).astype('<f2'))
np.save('scalar.npy', np.float32(1.5))
np.save('empty.npy', np.zeros((0, 5), '<i8'))
np.save('bytes.npy', np.array([[b'a', b''], [b'longer', b'x\0y']]))
np.save('text.npy', np.array(['plain', 'é€😀', ''], '>U5'))
np.save('object.npy', np.array([{}, None], object), allow_pickle=True)
np.save('fields.npy', np.zeros(2, [('x', '<f4'), ('y', '<i4')]))
np.lib.format.write_array(open('version3.npy', 'wb'), a.astype('|i1'), version=(3, 0))
np.savez('stored.npz', a=a.astype('<i4'), s=np.array(['x', 'yz']))
np.savez_compressed('compressed.npz', a=np.tile(a, (40, 1, 1)).astype('<i4'), s=np.array(['x', 'yz']))
