"""A file that would have another one read in its place is refused."""

import numpy as np
import pytest

from xcnorm.data.readers import read_usps_h5
from xcnorm.errors import UserError

h5py = pytest.importorskip("h5py")


@pytest.mark.parametrize("how", ["a link", "a virtual array", "values kept elsewhere"])
def test_usps_h5_from_other_files(how, tmp_path):
    data, target = np.zeros((4, 256), np.float32), np.zeros(4, np.uint8)
    (tmp_path / "secret").write_bytes(data.tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["data"] = data
    with h5py.File(tmp_path / "usps.h5", "w") as file:
        file["test/target"] = target
        if how == "a link":
            file["test/data"] = h5py.ExternalLink(tmp_path / "other.h5", "data")
        elif how == "a virtual array":
            layout = h5py.VirtualLayout(data.shape, data.dtype)
            layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "data", data.shape)
            file.create_virtual_dataset("test/data", layout)
        else:
            elsewhere = [(str(tmp_path / "secret"), 0, data.nbytes)]
            file.create_dataset("test/data", data.shape, data.dtype, external=elsewhere)
    refused = r"usps\.h5 (takes test from other files|is damaged .*object 'data' doesn't exist.*); fetch"
    with pytest.raises(UserError, match=refused):
        read_usps_h5(tmp_path / "usps.h5")
