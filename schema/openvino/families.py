"""The rules of all layers, by family; importing this module registers them."""

from circlet.schema.openvino import activation as activation
from circlet.schema.openvino import elementwise as elementwise
from circlet.schema.openvino import unary as unary
