-- Each kind of machine, with a text that changes with its results, or with what else a cached value is made of: that, the
-- number of the results, and a checksum of them. The projection by_series has both per series. No value is cached.
SELECT
    repo, benchmark, device, arch,
    concat({inputs:String}, ' ', toString(count()), ' ', toString(sum(record_id))) AS made_of, '' AS text
FROM /* source */
GROUP BY repo, benchmark, device, arch
ORDER BY repo, benchmark, device, arch
