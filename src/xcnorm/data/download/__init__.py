"""Getting published files onto the disk: fetched or adopted, checked, unpacked; never half of one."""

from xcnorm.data.download.adopt import adopt
from xcnorm.data.download.checks import check
from xcnorm.data.download.fetch import fetch
from xcnorm.data.download.progress import bytes_bar
from xcnorm.data.download.remote import RemoteFile
from xcnorm.data.download.unpack import unpack

__all__ = ["RemoteFile", "adopt", "bytes_bar", "check", "fetch", "unpack"]
