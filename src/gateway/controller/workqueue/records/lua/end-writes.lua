-- Ends the writes of a run: begin-write.lua refuses further ones.
--
-- KEYS[1] writes HASH of the key
-- ARGV[1] run
-- ARGV[2] how long the HASH stays, in ms
--
-- Answer: the fields and values of the HASH; nothing when it is that of a later run, which stays as it is. Two gateways
-- may settle the same lost run, and the second one may come after the next start of the key.

local run = redis.call('HGET', KEYS[1], 'run')
if run and tonumber(run) > tonumber(ARGV[1]) then return {} end
if run ~= ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'run', ARGV[1])
end
redis.call('HSET', KEYS[1], 'ended', '1')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('HGETALL', KEYS[1])
