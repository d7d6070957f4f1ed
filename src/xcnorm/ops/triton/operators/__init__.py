"""The kernels as operators of torch, with their gradients: what a compiler and autograd see of them.

Kernels are imported when they first run: a machine without Triton still imports these modules, and a compiler that
traces a layer finds the operators registered. Second derivatives go through the formula in plain torch.
"""
