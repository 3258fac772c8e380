-- Each kind of machine as in group_states.sql, with its cached value; the text is empty where that is missing or outdated.
SELECT states.repo, states.benchmark, states.device, states.arch, states.made_of, cached.text
FROM (
/* group_states */
) AS states
LEFT JOIN (SELECT * FROM torchperf_kept FINAL WHERE kind = {kind:String}) AS cached
    ON (states.repo, states.benchmark, states.device, states.arch, states.made_of)
        = (cached.repo, cached.benchmark, cached.device, cached.arch, cached.made_of)
ORDER BY states.repo, states.benchmark, states.device, states.arch
