"""The tables, enumerations and unions of TensorFlow Lite's schema that its dialects have in common, as of version 2.18.

A test compares them with the package `tflite`, which flatc generated from that schema.
"""

from __future__ import annotations

from collections.abc import Mapping

TABLES: Mapping[str, str] = {
    "AddOptions": "fused_activation_function:b pot_scale_int16:?=True",
    "ArgMaxOptions": "output_type:b",
    "ArgMinOptions": "output_type:b",
    "BatchMatMulOptions": "adj_x:? adj_y:? asymmetric_quantize_inputs:?",
    "BidirectionalSequenceLSTMOptions":
        "fused_activation_function:b cell_clip:f proj_clip:f merge_outputs:? time_major:?=True "
        "asymmetric_quantize_inputs:?",
    "BidirectionalSequenceRNNOptions":
        "time_major:? fused_activation_function:b merge_outputs:? asymmetric_quantize_inputs:?",
    "BucketizeOptions": "boundaries:[f]",
    "Buffer": "data:[B] offset:Q size:Q",
    "CallOnceOptions": "init_subgraph_index:i",
    "CallOptions": "subgraph:I",
    "CastOptions": "in_data_type:b out_data_type:b",
    "ConcatEmbeddingsOptions": "num_channels:i num_columns_per_channel:[i] embedding_dim_per_channel:[i]",
    "ConcatenationOptions": "axis:i fused_activation_function:b",
    "Conv2DOptions":
        "padding:b stride_w:i stride_h:i fused_activation_function:b dilation_w_factor:i=1 dilation_h_factor:i=1 "
        "quantized_bias_type:b",
    "Conv3DOptions":
        "padding:b stride_d:i stride_w:i stride_h:i fused_activation_function:b dilation_d_factor:i=1 "
        "dilation_w_factor:i=1 dilation_h_factor:i=1",
    "CumsumOptions": "exclusive:? reverse:?",
    "CustomQuantization": "custom:[B]",
    "DepthToSpaceOptions": "block_size:i",
    "DepthwiseConv2DOptions":
        "padding:b stride_w:i stride_h:i depth_multiplier:i fused_activation_function:b dilation_w_factor:i=1 "
        "dilation_h_factor:i=1",
    "DimensionMetadata":
        "format:b dense_size:i array_segments_type:B array_segments:union array_indices_type:B array_indices:union",
    "DivOptions": "fused_activation_function:b",
    "EmbeddingLookupSparseOptions": "combiner:b",
    "FakeQuantOptions": "min:f max:f num_bits:i narrow_range:?",
    "FullyConnectedOptions":
        "fused_activation_function:b weights_format:b keep_num_dims:? asymmetric_quantize_inputs:? "
        "quantized_bias_type:b",
    "GatherOptions": "axis:i batch_dims:i",
    "GeluOptions": "approximate:?",
    "HashtableOptions": "table_id:i key_dtype:b value_dtype:b",
    "IfOptions": "then_subgraph_index:i else_subgraph_index:i",
    "Int32Vector": "values:[i]",
    "L2NormOptions": "fused_activation_function:b",
    "LSHProjectionOptions": "type:b",
    "LSTMOptions": "fused_activation_function:b cell_clip:f proj_clip:f kernel_type:b asymmetric_quantize_inputs:?",
    "LeakyReluOptions": "alpha:f",
    "LocalResponseNormalizationOptions": "radius:i bias:f alpha:f beta:f",
    "Metadata": "name:s buffer:I",
    "MirrorPadOptions": "mode:b",
    "Model":
        "version:I operator_codes:[OperatorCode] subgraphs:[SubGraph] description:s buffers:[Buffer] "
        "metadata_buffer:[i] metadata:[Metadata] signature_defs:[SignatureDef]",
    "MulOptions": "fused_activation_function:b",
    "OneHotOptions": "axis:i",
    "Operator":
        "opcode_index:I inputs:[i] outputs:[i] builtin_options_type:B builtin_options:union custom_options:[B] "
        "custom_options_format:b mutating_variable_inputs:[?] intermediates:[i] large_custom_options_offset:Q "
        "large_custom_options_size:Q builtin_options2_type:B builtin_options2:union debug_metadata_index:i=-1",
    "OperatorCode": "deprecated_builtin_code:b custom_code:s version:i=1 builtin_code:i",
    "PackOptions": "values_count:i axis:i",
    "Pool2DOptions": "padding:b stride_w:i stride_h:i filter_width:i filter_height:i fused_activation_function:b",
    "QuantizationParameters":
        "min:[f] max:[f] scale:[f] zero_point:[q] details_type:B details:union quantized_dimension:i",
    "RNNOptions": "fused_activation_function:b asymmetric_quantize_inputs:?",
    "RandomOptions": "seed:q seed2:q",
    "ReduceWindowOptions": "reduce_function:i",
    "ReducerOptions": "keep_dims:?",
    "ReshapeOptions": "new_shape:[i]",
    "ResizeBilinearOptions": "align_corners:?@2 half_pixel_centers:?",
    "ResizeNearestNeighborOptions": "align_corners:? half_pixel_centers:?",
    "ReverseSequenceOptions": "seq_dim:i batch_dim:i",
    "SVDFOptions": "rank:i fused_activation_function:b asymmetric_quantize_inputs:?",
    "SequenceRNNOptions": "time_major:? fused_activation_function:b asymmetric_quantize_inputs:?",
    "ShapeOptions": "out_type:b",
    "SignatureDef": "inputs:[TensorMap] outputs:[TensorMap] signature_key:s subgraph_index:I@4",
    "SkipGramOptions": "ngram_size:i max_skip_size:i include_all_ngrams:?",
    "SoftmaxOptions": "beta:f",
    "SpaceToDepthOptions": "block_size:i",
    "SparseToDenseOptions": "validate_indices:?",
    "SparsityParameters": "traversal_order:[i] block_map:[i] dim_metadata:[DimensionMetadata]",
    "SplitOptions": "num_splits:i",
    "SplitVOptions": "num_splits:i",
    "SqueezeOptions": "squeeze_dims:[i]",
    "StableHLOCompositeOptions":
        "name:s decomposition_subgraph_index:i composite_attributes:[B] composite_attributes_format:b version:i",
    "StablehloBroadcastInDimOptions": "broadcast_dimensions:[q]",
    "StablehloCompareOptions": "comparison_direction:I compare_type:I",
    "StablehloConcatenateOptions": "dimension:q",
    "StablehloConvolutionOptions":
        "window_strides:[q] padding:[q] lhs_dilation:[q] rhs_dilation:[q] window_reversal:[?] input_batch_dimension:q "
        "input_feature_dimension:q input_spatial_dimensions:[q] kernel_input_feature_dimension:q "
        "kernel_output_feature_dimension:q kernel_spatial_dimensions:[q] output_batch_dimension:q "
        "output_feature_dimension:q output_spatial_dimensions:[q] feature_group_count:q batch_group_count:q "
        "precision_config:[I]",
    "StablehloCustomCallOptions":
        "call_target_name:s has_side_effect:? backend_config:s api_version:i called_computations:[i] "
        "custom_attributes:[B]",
    "StablehloDotGeneralOptions":
        "lhs_batching_dimensions:[q] rhs_batching_dimensions:[q] lhs_contracting_dimensions:[q] "
        "rhs_contracting_dimensions:[q] precision_config:[I]",
    "StablehloDynamicSliceOptions": "slice_sizes:[q]",
    "StablehloGatherOptions":
        "offset_dims:[q] collapsed_slice_dims:[q] start_index_map:[q] index_vector_dim:q slice_sizes:[q] "
        "indices_are_sorted:?",
    "StablehloIotaOptions": "iota_dimension:q",
    "StablehloPadOptions": "edge_padding_low:[q] edge_padding_high:[q] interior_padding:[q]",
    "StablehloReduceOptions": "dimensions:[q] body_subgraph_index:i",
    "StablehloReduceWindowOptions":
        "window_dimensions:[q] window_strides:[q] base_dilations:[q] window_dilations:[q] padding:[q] "
        "body_subgraph_index:i",
    "StablehloRngBitGeneratorOptions": "algorithm:b",
    "StablehloScatterOptions":
        "indices_are_sorted:? update_window_dims:[q] inserted_window_dims:[q] scatter_dims_to_operand_dims:[q] "
        "index_vector_dim:q unique_indices:? update_computation_subgraph_index:i",
    "StablehloSliceOptions": "start_indices:[q] limit_indices:[q] strides:[q]",
    "StablehloSortOptions": "dimension:q is_stable:? comparator_subgraph_index:i",
    "StablehloTransposeOptions": "permutation:[q]",
    "StablehloWhileOptions": "cond_subgraph_index:i body_subgraph_index:i",
    "StridedSliceOptions": "begin_mask:i end_mask:i ellipsis_mask:i new_axis_mask:i shrink_axis_mask:i offset:?",
    "SubGraph": "tensors:[Tensor] inputs:[i] outputs:[i] operators:[Operator] name:s debug_metadata_index:i=-1",
    "SubOptions": "fused_activation_function:b pot_scale_int16:?=True",
    "Tensor":
        "shape:[i] type:b buffer:I name:s quantization:QuantizationParameters is_variable:? "
        "sparsity:SparsityParameters shape_signature:[i] has_rank:? variant_tensors:[VariantSubType]",
    "TensorMap": "name:s tensor_index:I",
    "TransposeConvOptions": "padding:b stride_w:i stride_h:i fused_activation_function:b quantized_bias_type:b",
    "Uint16Vector": "values:[H]",
    "Uint8Vector": "values:[B]",
    "UnidirectionalSequenceLSTMOptions":
        "fused_activation_function:b cell_clip:f proj_clip:f time_major:? asymmetric_quantize_inputs:? "
        "diagonal_recurrent_tensors:?",
    "UniqueOptions": "idx_out_type:b=2",
    "UnpackOptions": "num:i axis:i",
    "VarHandleOptions": "container:s shared_name:s",
    "VariantSubType": "shape:[i] type:b has_rank:?",
    "WhileOptions": "cond_subgraph_index:i body_subgraph_index:i",
}
"""The fields of each table, in the order of their slots: `name:type`. A type is the `struct` code of a scalar, `s` for
a string, `union`, or a table; in brackets for a vector of them. `=` is followed by a default that is not zero, and `@`
by the slot where it is not the next one. Tables that are not here have no fields."""
MEMBERS: Mapping[str, str] = {
    "BuiltinOperator":
        "ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR "
        "FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC "
        "LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX "
        "SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD "
        "UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE "
        "UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE "
        "BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL "
        "LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT "
        "RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT "
        "UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR "
        "LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK "
        "ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 "
        "NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES "
        "CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT "
        "HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS "
        "RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 "
        "UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST "
        "BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY "
        "STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM "
        "STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND "
        "STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE "
        "STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT "
        "STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE "
        "STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW "
        "STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR "
        "REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT",
    "BuiltinOptions":
        "NONE Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions Pool2DOptions "
        "SVDFOptions RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions AddOptions L2NormOptions "
        "LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions CallOptions ReshapeOptions "
        "SkipGramOptions SpaceToDepthOptions EmbeddingLookupSparseOptions MulOptions PadOptions GatherOptions "
        "BatchToSpaceNDOptions SpaceToBatchNDOptions TransposeOptions ReducerOptions SubOptions DivOptions "
        "SqueezeOptions SequenceRNNOptions StridedSliceOptions ExpOptions TopKV2Options SplitOptions LogSoftmaxOptions "
        "CastOptions DequantizeOptions MaximumMinimumOptions ArgMaxOptions LessOptions NegOptions PadV2Options "
        "GreaterOptions GreaterEqualOptions LessEqualOptions SelectOptions SliceOptions TransposeConvOptions "
        "SparseToDenseOptions TileOptions ExpandDimsOptions EqualOptions NotEqualOptions ShapeOptions PowOptions "
        "ArgMinOptions FakeQuantOptions PackOptions LogicalOrOptions OneHotOptions LogicalAndOptions LogicalNotOptions "
        "UnpackOptions FloorDivOptions SquareOptions ZerosLikeOptions FillOptions BidirectionalSequenceLSTMOptions "
        "BidirectionalSequenceRNNOptions UnidirectionalSequenceLSTMOptions FloorModOptions RangeOptions "
        "ResizeNearestNeighborOptions LeakyReluOptions SquaredDifferenceOptions MirrorPadOptions AbsOptions "
        "SplitVOptions UniqueOptions ReverseV2Options AddNOptions GatherNdOptions CosOptions WhereOptions RankOptions "
        "ReverseSequenceOptions MatrixDiagOptions QuantizeOptions MatrixSetDiagOptions HardSwishOptions IfOptions "
        "WhileOptions DepthToSpaceOptions NonMaxSuppressionV4Options NonMaxSuppressionV5Options ScatterNdOptions "
        "SelectV2Options DensifyOptions SegmentSumOptions BatchMatMulOptions CumsumOptions CallOnceOptions "
        "BroadcastToOptions Rfft2dOptions Conv3DOptions HashtableOptions HashtableFindOptions HashtableImportOptions "
        "HashtableSizeOptions VarHandleOptions ReadVariableOptions AssignVariableOptions RandomOptions "
        "BucketizeOptions GeluOptions DynamicUpdateSliceOptions UnsortedSegmentProdOptions UnsortedSegmentMaxOptions "
        "UnsortedSegmentMinOptions UnsortedSegmentSumOptions ATan2Options SignOptions BitcastOptions BitwiseXorOptions "
        "RightShiftOptions",
    "BuiltinOptions2":
        "NONE StablehloConcatenateOptions StablehloBroadcastInDimOptions StablehloSliceOptions "
        "StablehloConvolutionOptions StablehloCustomCallOptions StablehloReduceOptions StablehloScatterOptions "
        "StablehloCompareOptions StablehloDynamicSliceOptions StablehloPadOptions StablehloIotaOptions "
        "StablehloDotGeneralOptions StablehloReduceWindowOptions StablehloSortOptions StablehloWhileOptions "
        "StablehloGatherOptions StablehloTransposeOptions DilateOptions StablehloRngBitGeneratorOptions "
        "ReduceWindowOptions StableHLOCompositeOptions StablehloShiftLeftOptions",
    "TensorType":
        "FLOAT32 FLOAT16 INT32 UINT8 INT64 STRING BOOL INT16 COMPLEX64 INT8 FLOAT64 COMPLEX128 UINT64 RESOURCE VARIANT "
        "UINT32 UINT16 INT4 BFLOAT16",
    "QuantizationDetails": "NONE CustomQuantization",
    "SparseIndexVector": "NONE Int32Vector Uint16Vector Uint8Vector",
}
"""The members of enumerations and unions, numbered from 0 on."""
