-- Adds runs to the history of all keys.
--
-- ARGV[1] how many runs the stream holds, of 256 bytes each
-- then    two each, one entry: number of runs; text with a line for each of them (past-run.ts)
--
-- An entry's ID is the size of all entries before it, in units of 256 bytes or at least one for each run, so that
-- trimming by ID bounds both the runs and the bytes.

local recent = KEYS[1] .. ':recent'
for at = 2, #ARGV, 2 do
  local runs, text = tonumber(ARGV[at]), ARGV[at + 1]
  local size = math.max(runs, math.ceil(#text / 256))
  local total = redis.pcall('HINCRBY', KEYS[1] .. ':queue', 'recorded', size)
  if type(total) ~= 'number' then return total end
  local id = string.format('%.0f-1', total - size)
  local oldest = string.format('%.0f', math.max(0, total - math.max(size, tonumber(ARGV[1]))))
  local added = redis.pcall('XADD', recent, 'MINID', '=', oldest, id, 'runs', text)
  if type(added) == 'table' and added.err then
    if string.find(added.err, 'OOM', 1, true) then return added end
    -- Redis has lost the count, or the key has another type: the history begins anew.
    redis.call('UNLINK', recent)
    redis.call('XADD', recent, id, 'runs', text)
  end
end
