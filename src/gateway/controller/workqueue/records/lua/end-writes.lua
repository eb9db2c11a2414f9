-- Ends the writes of a run: begin-write.lua refuses further ones.
--
-- KEYS[1] writes HASH of the key, see begin-write.lua
-- ARGV[1] run
-- ARGV[2] how long the HASH stays, in ms
--
-- Answer: the fields and values of the HASH.

if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'run', ARGV[1])
end
redis.call('HSET', KEYS[1], 'ended', '1')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('HGETALL', KEYS[1])
