-- Removes keys of a queue whose removal has begun. A gateway that has stood still in the middle of a removal must not
-- remove the queue that another gateway has begun since.
--
-- KEYS[1]  queue HASH
-- KEYS[2..] the keys
--
-- Answer: 1, or 0 when the queue is in use again and nothing was removed.

if redis.call('HEXISTS', KEYS[1], 'incarnation') == 1 then
  return 0
end
for at = 2, #KEYS do
  redis.call('UNLINK', KEYS[at])
end
return 1
