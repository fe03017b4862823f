"""Stand-ins for other libraries' classes, on tritree's kernels; neither library has to be installed.

tritree.compat.supar.DependencyCRF          in place of supar.structs.DependencyCRF (supar 1.1.4)
tritree.compat.torch_struct.DependencyCRF   in place of torch_struct.DependencyCRF (torch-struct 0.5)

Arguments, names and shapes are those of the originals. Numbers follow tritree.conventions: −inf forbids an arc, half
precision gives float32 results, where there is no tree scores are −inf, and no argument is modified.
docs/swapping.md has examples.
"""
