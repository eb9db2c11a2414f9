-- Removes what a view holds of users that are no more: should they stay in the list of users that have heard of its changes, its next change
-- would note that they have missed it.
--
-- KEYS[1] view HASH   users, missed:<user>
-- ARGV    the users

local gone = {}
for _, user in ipairs(ARGV) do
  gone[user] = true
  redis.call('HDEL', KEYS[1], 'missed:' .. user)
end
local users = redis.call('HGET', KEYS[1], 'users')
if not users then
  return 0
end
local left = {}
for user in string.gmatch(users, '[^\n]+') do
  if not gone[user] then
    table.insert(left, user)
  end
end
redis.call('HSET', KEYS[1], 'users', table.concat(left, '\n'))
return 1
