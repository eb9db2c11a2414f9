-- Takes a view again whose data Redis may have lost in part, before a list of all of it.
--
-- KEYS[1] view HASH  process: the Redis process that has all writes; with a `?` before it: the process that has all of them
--              since a list began; `?` alone: there may be no such process
-- ARGV[1] ID of the writer: refused when the view has another ID; written when Redis has lost it
--
-- Answer: 1, or -1 when the view has another writer and nothing was done.

local writer_id = redis.call('HGET', KEYS[1], 'writerId')
if writer_id and writer_id ~= ARGV[1] then
  return -1
end
redis.call('HSET', KEYS[1], 'writerId', ARGV[1])
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local written_on = redis.call('HGET', KEYS[1], 'process')
if written_on and written_on ~= process then
  redis.call('HSET', KEYS[1], 'process', '?' .. process)
end
return 1
