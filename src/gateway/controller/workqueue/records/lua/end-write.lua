-- Replaces the note of a write by its outcome.
--
-- KEYS[1] writes HASH of the key
-- ARGV[1] run
-- ARGV[2] id of the write
-- ARGV[3] the outcome, or '' if nothing was written
-- ARGV[4] how many bytes of outcomes the HASH holds; further writes are only counted, in `more`
--
-- Answer: 1, or 0 if the HASH is that of another run by now, or gone.

if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then return 0 end
local field = 'w' .. ARGV[2]
-- The call is repeated after a lost connection: the outcome counts once.
if ARGV[3] ~= '' and redis.call('HGET', KEYS[1], field) == ARGV[3] then return 1 end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], field)
elseif redis.call('HINCRBY', KEYS[1], 'bytes', #ARGV[3]) > tonumber(ARGV[4]) then
  redis.call('HDEL', KEYS[1], field)
  redis.call('HINCRBY', KEYS[1], 'more', 1)
else
  redis.call('HSET', KEYS[1], field, ARGV[3])
end
return 1
