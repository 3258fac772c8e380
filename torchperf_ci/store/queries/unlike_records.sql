-- Whether a row is incoming that the engine accepts but our own reader may refuse: to the engine, any JSON object is a
-- record, any bytes are text, and keys of a map may repeat.
SELECT 1
FROM torchperf_incoming
WHERE metric.name = ''
    OR NOT isValidUTF8(concat(
        schema_version, name, repo, head_branch, head_sha, benchmark.name, benchmark.mode, benchmark.dtype,
        model.name, model.type, model.backend, metric.name
    ))
    OR NOT arrayAll(x -> isValidUTF8(x), arrayConcat(
        model.origins, mapValues(benchmark.extra_info), mapValues(model.extra_info), mapValues(metric.extra_info)
    ))
    OR NOT arrayAll(x -> isValidUTF8(x), arrayConcat(
        mapKeys(benchmark.extra_info), mapKeys(model.extra_info), mapKeys(metric.extra_info)
    ))
    OR NOT isValidUTF8(toString((runners, inputs, dependencies)))
    OR arrayExists(names -> length(names) != length(arrayDistinct(names)), arrayConcat(
        [mapKeys(benchmark.extra_info), mapKeys(model.extra_info), mapKeys(metric.extra_info)],
        [mapKeys(inputs), mapKeys(dependencies)],
        arrayMap(runner -> mapKeys(runner.extra_info), runners)
    ))
LIMIT 1
