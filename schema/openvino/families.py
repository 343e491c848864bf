"""The rules of all layers, by family; importing this module registers them."""

from circlet.schema.openvino import activation as activation
from circlet.schema.openvino import adaptive as adaptive
from circlet.schema.openvino import controlflow as controlflow
from circlet.schema.openvino import conv as conv
from circlet.schema.openvino import decode as decode
from circlet.schema.openvino import detection as detection
from circlet.schema.openvino import detector as detector
from circlet.schema.openvino import einsum as einsum
from circlet.schema.openvino import elementwise as elementwise
from circlet.schema.openvino import embedding as embedding
from circlet.schema.openvino import index as index
from circlet.schema.openvino import layout as layout
from circlet.schema.openvino import loops as loops
from circlet.schema.openvino import matmul as matmul
from circlet.schema.openvino import normalize as normalize
from circlet.schema.openvino import pool as pool
from circlet.schema.openvino import priors as priors
from circlet.schema.openvino import recurrent as recurrent
from circlet.schema.openvino import reduce as reduce
from circlet.schema.openvino import resize as resize
from circlet.schema.openvino import search as search
from circlet.schema.openvino import shape as shape
from circlet.schema.openvino import spectral as spectral
from circlet.schema.openvino import unary as unary
from circlet.schema.openvino import variable as variable
from circlet.schema.openvino import yolo as yolo
