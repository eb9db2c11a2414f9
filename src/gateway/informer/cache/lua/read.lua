-- Reads the first of some objects of a view, no more bytes than Redis should hold in memory for one answer.
--
-- KEYS[1] objects HASH
-- ARGV[1] bytes; the first object is read whatever its size
-- then    keys
--
-- Answer: the objects of the first keys, nil where there is none.

local left, count = tonumber(ARGV[1]), 0
for at = 2, #ARGV do
  left = left - redis.call('HSTRLEN', KEYS[1], ARGV[at])
  if left < 0 and count > 0 then break end
  count = count + 1
end
return redis.call('HMGET', KEYS[1], unpack(ARGV, 2, count + 1))
